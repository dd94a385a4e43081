"""Rows: the one solver for weights of rows, whether these are public, drawn from a model, or both."""
