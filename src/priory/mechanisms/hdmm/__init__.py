"""HDMM: the recipe, its strategies and its least squares."""
