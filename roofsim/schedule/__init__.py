"""Say when the work of a step happens: streams, what overlaps, hosts, pipelines, ranks."""
