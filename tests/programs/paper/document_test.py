from programs.paper import document


def test_documents_are_escaped_and_marked():
  blocks = [
    document.Heading(1, 'A < B'),
    document.Table(('a', 'b'), [('x|y', 'partly')]),
    document.Code('a & b'),
  ]
  markdown = document.to_markdown(blocks)
  assert '# A < B' in markdown
  assert '| x\\|y | partly |' in markdown
  page = document.to_html(blocks, {'partly': 'fair'})
  assert '<h1>A &lt; B</h1>' in page
  assert '<td class="fair">partly</td>' in page
  assert '<pre>a &amp; b</pre>' in page
