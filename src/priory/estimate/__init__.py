"""Estimate: from noisy measurements to the model that explains them and moves no further than they say.

The default path, in the order in which `priory.estimate` goes through it:

| file | what it holds |
|---|---|
| `estimator` | the verb `estimate`: checks, the choice of solver and stop, diagnostics |
| `evidence`, `measured` | measurements as one vector of answers y with the linear map Q that predicts them |
| `total` | the number of records that the answers say there are |
| `loss` | how badly marginals explain the answers |
| `setting`, `problem` | what one estimate is made from; the contract of a solver and the loop that drives it |
| `path` | the way from the base to the estimate: levels of evidence, and where to stop on each |
| `risk`, `tangent` | the error of a fit, estimated without knowing the truth, by which the path stops |
| `dual`, `lbfgs` | the default solver, and the minimiser inside it |

Beside it: `prior_strength` (how many records a public sample counts for), `response` (how an estimate moves with its
answers, for intervals) and `papers/` (the published solvers). To write a solver of your own see docs/extend/solver.md.
"""
