"""Reports: charts and pages that a browser shows without a network.

`charts` draws inline SVG, `page` puts it between words and tables and writes the file.
"""
