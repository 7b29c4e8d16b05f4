"""The reductions behind `gradwatch.measure`, one module for each framework and device."""
