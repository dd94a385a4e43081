"""Model: a base measure tilted by potentials on cliques, and everything that can be read from it exactly."""
