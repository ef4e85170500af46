"""Sealed forecasts: predictions that are dated and hashed before anybody measured them, and scored afterwards."""
