"""Say what priced programs mean: limits, sensitivities, memory, money, explanations."""
