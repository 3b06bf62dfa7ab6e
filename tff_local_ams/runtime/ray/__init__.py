"""Rounds on Ray: clients in many processes or on many machines."""
