"""Programs that other tools exported: what roofsim makes of them against independent counts."""
