"""Mechanisms: recipes of select, measure, estimate and answer."""

from priory.mechanisms.aim import AIM
from priory.mechanisms.best_mixture import BestMixture
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.dualquery.estimates import records_model, sampled_model
from priory.mechanisms.hdmm.hdmm import HDMM, LeastSquares
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.mechanisms.independent import Independent
from priory.mechanisms.mst import MST
from priory.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem.mwem import MWEM, Graphical, graphical_model
from priory.mechanisms.pmw_pub.pmw_pub import PMWPub
from priory.mechanisms.privbayes import PrivBayes, network_model
from priory.mechanisms.weighing import Weighing

# Its name where it starts from public rows.
Prior = Weighing

# fmt: off
__all__ = [
    "AIM", "HDMM", "MST", "MWEM", "BestMixture", "DualQuery", "Graphical", "Independent", "LeastSquares",
    "MultiplicativeWeights", "PMWPub", "Prior", "PriorUpdate", "PrivBayes", "Weighing", "graphical_model",
    "network_model", "records_model", "sampled_model",
]
# fmt: on
