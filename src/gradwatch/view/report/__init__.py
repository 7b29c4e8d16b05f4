"""One file that tells what a run was like: a page, Markdown for a pull request, or JSON."""
