"""Control characters of a log's path do not get into the SVG: it is well-formed."""
import xml.dom.minidom
import xml.parsers.expat

from support import Wrong

LOG = ''.join('{"event":"train","iteration":%d,"loss":%f}\n' % (i, 5 / (i + 1)) for i in range(5))


def check(t):
    for name in ['a\033b.log', 'a<&"b.log', 'a\nb.log', b'a\xff\xc2\x80b.log'.decode(
            errors='surrogateescape')]:
        with open(t.path(name), 'w', encoding='utf-8') as file:
            file.write(LOG)
        t.succeed('plot', t.path(name), '-o', t.path('o.svg'))
        try:
            xml.dom.minidom.parse(t.path('o.svg'))
        except xml.parsers.expat.ExpatError as bad:
            raise Wrong('%r: %s' % (name, bad)) from bad
