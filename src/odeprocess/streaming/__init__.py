"""Streams: posteriors of many series while their observations arrive.

A `Stream` holds a running summary of each series (`summaries`), the observations (`observation_log`) and the ids (`series_ids`),
and is saved to one file (`stream_file`). May import `common`, `data`, `process`, `inference` and `posterior`; not `training`.
"""
