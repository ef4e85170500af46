"""Training steps of MLPerf submissions: nothing is fitted to them."""
