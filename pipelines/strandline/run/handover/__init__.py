"""What is done with a data set when its run is over: it is moved, or pushed to its readers."""
