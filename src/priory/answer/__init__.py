"""Answer: what a model says, how sure it is, and how far it is from a table."""
