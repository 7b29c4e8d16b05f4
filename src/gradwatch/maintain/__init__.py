"""Looking after stored runs: verify, repair, upload."""
