"""The tests: a folder for each room of the code; support/ is what they import by plain name."""
