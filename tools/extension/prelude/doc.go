// Package prelude is the JavaScript that stands between an extension and the
// host: the dispatcher (core.js), and the modules that extensions import and
// that are not theirs (node:*, pi's own packages, typebox).
//
// # A module
//
// A file is the body of a CommonJS function (exports, require, module, host). Its
// first line says what it stands for, all names of one module:
//
//	// provides: node:fs, fs
//
// One that ends in /* stands for all below it.
//
// It is compiled when something first requires it, in a function of its own,
// so it costs nothing to who does not use it. require reaches other modules of the
// prelude by any of their names and nothing else. Named imports of an extension are
// looked up when they are used, so what is missing is undefined there, and not a
// failure to link. A module that is the default export as well needs nothing special:
// `import fs from "node:fs"` gives module.exports. A first line
//
//	// provides: node:http, http
//	// node-only
//
// names modules that only Node has: an extension that imports one is not run here. What
// stands below is for packages that merely import them; without it they get a module that
// throws when something of it is called.
//
// Extensions share the realm: a module saves the built-in functions that it calls
// later, if a user's change of them could break it in a way that is not the user's own.
// core.js saves all that it calls, and locks the few that the engine itself looks up
// (see lock). Members of modules that core.js calls are in its table USED.
//
// # The host
//
//	host.op(name, ...args)          asks now and waits: fs.readFileSync and its like
//	host.start(name, ...args)       asks and gives a promise; the same names
//	host.open(name, args, on)       begins something with events: on(event, ...values); gives an id
//	host.send(id, event, ...values) says something to it
//	host.pid(id)                    the process of a proc.spawn, undefined if it did not start
//	host.close(id)                  ends it; no event follows
//	host.ask(name, payload)         asks the daemon, gives a promise
//	host.act(name, payload)         tells the daemon
//	host.require(name, from)        what require(name) in the file from gives: createRequire
//	host.log(level, text)           one line for people: "debug", "info", "warn", "error"
//	host.boot                       what does not change: see below
//	host.context()                  ctx of the session, as a handler gets it
//
// Arguments and results are JSON values or Uint8Array; a Uint8Array may be an argument,
// a result, a member of a result that is an object, or a value of an event, not deeper.
// A failure throws or rejects with an Error that has code, errno, syscall, path and
// dest as Node's errors have, where the operation is one of Node's.
//
// host.boot: {platform, arch, homedir, tmpdir, hostname, release, osType, osVersion, cpus: n,
// totalmem, pid, ppid, execPath, argv, env, cwd, user: {uid, gid, username, homedir, shell},
// agentDir, version, piVersion, eol}
//
// # Operations (op, start)
//
//	fs.readFile(path|fd) → bytes                fs.writeFile(path|fd, string|bytes, {flag, mode})
//	fs.stat(path) fs.lstat(path) fs.fstat(fd) → {dev, ino, mode, nlink, uid, gid, size, blocks, blksize, atimeMs, mtimeMs, ctimeMs, birthtimeMs}
//	fs.readdir(path) → [{name, type: "file"|"dir"|"link"|"fifo"|"socket"|"char"|"block"}]
//	fs.realpath(path) fs.readlink(path) → string
//	fs.mkdir(path, {recursive, mode}) → first path made, or null     fs.mkdtemp(prefix) → path
//	fs.rm(path, {recursive, force}) fs.rmdir(path) fs.unlink(path)
//	fs.rename(a, b) fs.copyFile(a, b, mode) fs.cp(a, b, {recursive, force, errorOnExist})
//	fs.symlink(target, path) fs.link(a, b) fs.chmod(path, mode) fs.chown(path, uid, gid)
//	fs.utimes(path, atimeMs, mtimeMs) fs.lutimes(…) fs.access(path, mode) fs.truncate(path, n)
//	fs.open(path, flags, mode) → fd             flags as Node's: "r", "wx", "a+" … or a number
//	fs.close(fd) fs.fsync(fd) fs.ftruncate(fd, n) fs.futimes(fd, a, m) fs.fchmod(fd, mode)
//	fs.read(fd, length, position|null) → bytes  fs.write(fd, string|bytes, position|null) → n
//	fs.glob(pattern, {cwd}) → [path]
//	proc.run(command, args, {cwd, env, timeout, maxBuffer, input, killSignal, shell}) →
//	    {pid, code, signal, stdout: bytes, stderr: bytes, killed, truncated, timedOut, error?: {code, message}}
//	    op is spawnSync, start is execFile; code is null after a signal
//	proc.kill(pid, signal)
//	crypto.hash(algorithm, bytes) crypto.hmac(algorithm, key, bytes) → bytes; md5 sha1 sha224 sha256 sha384 sha512
//	crypto.randomBytes(n) → bytes               crypto.randomUUID() → string
//	crypto.pbkdf2(password, salt, iterations, length, digest) crypto.hkdf(digest, key, salt, info, length)
//	crypto.cipher(algorithm, encrypt, key, iv, bytes, aad, tag) → {data: bytes, tag: bytes}; aes-128/192/256-gcm, -cbc, -ctr
//	crypto.equal(a, b) → boolean
//	zlib.run(method, bytes, {level}) → bytes    gzip gunzip deflate inflate deflateRaw inflateRaw unzip
//	dns.lookup(host, {family, all}) → [{address, family}]     dns.resolve(host, type) → [string]
//	schema.check(schema, value) → {ok, value, errors: [{path, message}]}; value is coerced as for tools
//	tool.info(name) → {name, description, parameters}
//	tool.run(name, args, {cwd, callId, prefix, shellPath}) → tool result, or throws; read bash edit write grep find ls
//	intl.offset(zone, ms) → minutes before UTC
//	intl.zone(zone, ms) → abbreviation          intl.local() → name of the zone of this machine
//	intl.locale(tag) → record of a locale (locales/generate.cjs), null for none
//	intl.compare(locale, mode, a, b) → -1, 0 or 1; mode is a sensitivity, then "numeric", "upper"
//	text.truncateHead(text, {maxLines, maxBytes}) text.truncateTail(…) → pi's TruncationResult
//	text.diff(old, new) → {diff, firstChangedLine}            text.patch(path, old, new) → string
//	text.encoding(label) → name in the WHATWG Encoding Standard, null if unknown
//	text.decodeLegacy(bytes, encoding, fatal, last) → {text, left: bytes at the end that are no whole character}
//
// # Streams (open)
//
//	proc.spawn  args [command, args, {cwd, env, shell, detached, stdio}]
//	            events spawn{pid} stdout(bytes) stderr(bytes) exit{code, signal} close{code, signal} error{code, message}
//	            send stdin(bytes|string) stdinEnd kill(signal)
//	fetch       args [{url, method, headers: [[name, value]], redirect, body: bytes|null, streams: bool}]
//	            events response{status, statusText, url, redirected, headers} data(bytes) end error{message, code}
//	            send pull: gives the next data or end; body(bytes) bodyEnd: with streams
//	fs.watch    args [path, {recursive}]; events change{eventType, filename} error
//	tool        args [name, args, {cwd, callId}]; events update(result) result(result) error{message}
//	llm         args [{model, context, options}]; events part(event) end(message) error{message}: the daemon streams
//
// # Globals
//
// core.js gives timers, queueMicrotask, console, AbortController, AbortSignal, Event,
// EventTarget, DOMException, structuredClone, performance.now, TextEncoder, TextDecoder, atob, btoa.
// These come from modules when they are first touched: Buffer (node:buffer), process
// (node:process), URL and URLSearchParams (node:url), and from "troupe:web" (file
// node_web.js): fetch, Headers, Request, Response, FormData, Blob, File, ReadableStream,
// WritableStream, TransformStream, crypto, WebSocket, Intl.
package prelude
