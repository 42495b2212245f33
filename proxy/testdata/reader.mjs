// A server that reads paths in the ways of Node's applications, and reports which
// requests without X-Auth-User-Id it reads as below a prefix: node reader.mjs
// PORT PREFIX. The method REPORT returns what it found.
import http from 'node:http'
import path from 'node:path'
import url from 'node:url'

const [port, prefix] = process.argv.slice(2)
const found = { arrived: 0, below: [] }

const readers = {
  raw: target => target,
  // Express and its relatives: the legacy parser, and routes that ignore case.
  legacy: target => url.parse(target).pathname ?? '',
  decoded: target => decodeURIComponent(url.parse(target).pathname ?? ''),
  normalized: target => path.posix.normalize(decodeURIComponent(url.parse(target).pathname ?? '')),
  windows: target => path.win32.normalize(decodeURIComponent(url.parse(target).pathname ?? '')).replaceAll('\\', '/'),
  whatwg: target => new URL(target, 'http://localhost').pathname,
  whatwgDecoded: target => decodeURIComponent(new URL(target, 'http://localhost').pathname)
}

http.createServer((request, response) => {
  if (request.method === 'REPORT') {
    response.end(JSON.stringify(found))
    return
  }
  found.arrived++
  for (const [name, read] of Object.entries(readers)) {
    let at = ''
    try {
      at = read(request.url)
    } catch {
      continue // this reader answers 400 or 500
    }
    if (at.toLowerCase().startsWith(prefix) && !request.headers['x-auth-user-id']) {
      found.below.push(`${name}: ${request.method} ${request.url}`)
    }
  }
  response.end('node')
}).listen(Number(port), '127.0.0.1')
