"""Registry: every solver by name, with settings that run to the end; the contract of tests runs over all of them."""

from priory.estimate.dual import Dual
from priory.estimate.papers.direct import LBFGS
from priory.estimate.papers.dual_averaging import DualAveraging
from priory.estimate.papers.mirror_descent import MirrorDescent
from priory.estimate.papers.multiplicative_weights import MultiplicativeSweeps
from priory.estimate.papers.raking import Raking
from priory.estimate.problem import Solver

SOLVERS: dict[str, Solver] = {
    "dual": Dual.exact(),
    "mirror-descent": MirrorDescent(),
    "dual-averaging": DualAveraging(),
    "lbfgs": LBFGS(),
    "multiplicative-sweeps": MultiplicativeSweeps(),
    "raking": Raking(),
}
