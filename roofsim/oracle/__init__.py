"""Price tables of kernels, layers, messages and steps, for programs that ask for many: schedulers, simulators, partitioners."""

from roofsim.oracle.predict import predict_batch
from roofsim.oracle.table import PredictedTable

__all__ = ["PredictedTable", "predict_batch"]
