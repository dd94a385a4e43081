"""Papers: the published solvers and estimators, in the form of one contract, to compare with and for custom losses."""
