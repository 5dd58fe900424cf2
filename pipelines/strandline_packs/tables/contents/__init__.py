"""What files hold, told apart to the last byte: members of archives, values of lines."""
