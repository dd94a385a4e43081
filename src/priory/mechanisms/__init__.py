"""Mechanisms: recipes of select, measure, estimate and answer."""

from priory.mechanisms.dualquery import DualQuery
from priory.mechanisms.game import records_model
from priory.mechanisms.graphical import Graphical, graphical_model, sampled_model
from priory.mechanisms.hdmm import HDMM, LeastSquares
from priory.mechanisms.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem import MWEM
from priory.mechanisms.network import network_model
from priory.mechanisms.privbayes import PrivBayes

__all__ = [
    "HDMM",
    "MWEM",
    "DualQuery",
    "Graphical",
    "LeastSquares",
    "MultiplicativeWeights",
    "PrivBayes",
    "graphical_model",
    "network_model",
    "records_model",
    "sampled_model",
]
