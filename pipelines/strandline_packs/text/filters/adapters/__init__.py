"""Steps of other libraries as stages, which stay where they are and are installed by the user."""
