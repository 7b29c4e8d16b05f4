"""The algebra and the addresses: sites, summaries, histograms, readings, selection, schedules."""
