"""Read, check and complete what the user says."""
