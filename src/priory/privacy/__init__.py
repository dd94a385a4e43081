"""Privacy: budgets, the ledger, noise, selection, and the curator that ties them to private counts."""
