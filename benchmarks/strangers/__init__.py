"""Programs of many families, run as users run them: does the diagnosis hold on strangers?"""
