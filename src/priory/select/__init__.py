"""Select: what decides which queries are asked; it looks at private data through the curator only."""
