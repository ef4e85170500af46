"""Rates and latencies of MLPerf Inference submissions: nothing is fitted to them."""
