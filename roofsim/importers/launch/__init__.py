"""Launch commands of other programs: what they say in the words of a scenario, and a scenario in theirs."""
