"""Logs of jobs: which files there are (`files`), several as one by time (`merge`), copies of remote ones (`copies`)."""
