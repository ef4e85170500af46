"""Read what profilers recorded of a run, and hold it beside what roofsim predicts, kernel by kernel."""
