"""Model a server of networks that answer in one pass: batches that form from what waits, latencies, the most that keeps a bound."""
