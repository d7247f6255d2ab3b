"""Reports: charts and pages that a browser shows without a network.

`charts` draws with matplotlib, `page` sets charts, tables and words by jinja2 and writes the file.
"""
