"""Search servers for the cheapest that keeps bounds on its latencies: cards, precisions, engines, ranks, batches."""
