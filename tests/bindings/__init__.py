"""Calls of every operator, whatever it is: arguments, errors, plans, explanations, the process."""
