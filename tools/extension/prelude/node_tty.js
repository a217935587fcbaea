// provides: node:tty, tty
module.exports = { isatty: () => false, ReadStream: class ReadStream {}, WriteStream: class WriteStream {} };
