package extension

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"golang.org/x/crypto/scrypt"

	"troupe/tools/extension/quick"
)

func hasher(name string) (func() hash.Hash, error) {
	switch strings.ToLower(strings.ReplaceAll(name, "-", "")) {
	case "md5":
		return md5.New, nil
	case "sha1":
		return sha1.New, nil
	case "sha224":
		return sha256.New224, nil
	case "sha256":
		return sha256.New, nil
	case "sha384":
		return sha512.New384, nil
	case "sha512":
		return sha512.New, nil
	}
	return nil, &failure{Code: "ERR_CRYPTO_INVALID_DIGEST", Name: "TypeError", Message: "Invalid digest: " + name}
}

// mostInflated bounds what a small input may grow to.
const mostInflated = 256 << 20

func cryptoOps() map[string]operation {
	return map[string]operation{
		"crypto.hash": func(c *opCall) (any, error) {
			h, err := hasher(c.args.text(0))
			if err != nil {
				return nil, err
			}
			sum := h()
			sum.Write(c.args.bytes(1))
			return sum.Sum(nil), nil
		},
		"crypto.hmac": func(c *opCall) (any, error) {
			h, err := hasher(c.args.text(0))
			if err != nil {
				return nil, err
			}
			sum := hmac.New(h, c.args.bytes(1))
			sum.Write(c.args.bytes(2))
			return sum.Sum(nil), nil
		},
		"crypto.randomBytes": func(c *opCall) (any, error) {
			n := c.args.int(0)
			if n < 0 || n > mostRead {
				return nil, &failure{Code: "ERR_OUT_OF_RANGE", Name: "RangeError", Message: fmt.Sprintf(`The value of "size" is out of range. Received %d`, n)}
			}
			b := make([]byte, n)
			rand.Read(b) // never fails
			return b, nil
		},
		"crypto.randomUUID": func(*opCall) (any, error) {
			b := make([]byte, 16)
			rand.Read(b)
			b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
			s := hex.EncodeToString(b)
			return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:], nil
		},
		"crypto.scrypt": func(c *opCall) (any, error) {
			var o struct{ N, R, P int }
			if err := c.args.into(3, &o); err != nil {
				return nil, err
			}
			return bytesOr(scryptKey(c.args.bytes(0), c.args.bytes(1), o.N, o.R, o.P, c.args.int(2)))
		},
		"crypto.pbkdf2": func(c *opCall) (any, error) {
			h, err := hasher(c.args.text(4))
			if err != nil {
				return nil, err
			}
			return bytesOr(pbkdf2.Key(h, string(c.args.bytes(0)), c.args.bytes(1), c.args.int(2), c.args.int(3)))
		},
		"crypto.hkdf": func(c *opCall) (any, error) {
			h, err := hasher(c.args.text(0))
			if err != nil {
				return nil, err
			}
			return bytesOr(hkdf.Key(h, c.args.bytes(1), c.args.bytes(2), string(c.args.bytes(3)), c.args.int(4)))
		},
		"crypto.equal": func(c *opCall) (any, error) {
			a, b := c.args.bytes(0), c.args.bytes(1)
			if len(a) != len(b) {
				return nil, &failure{Code: "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", Name: "RangeError", Message: "Input buffers must have the same byte length"}
			}
			return subtle.ConstantTimeCompare(a, b) == 1, nil
		},
		"crypto.cipher": crypt,
		"zlib.run":      squeeze,
	}
}

func bytesOr(b []byte, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// mostScrypt bounds the memory of one key, in bytes: twice what Node allows.
const mostScrypt = 64 << 20

// scryptKey derives a key (RFC 7914). n, a power of two, and r say how much memory it
// takes, p how often.
func scryptKey(password, salt []byte, n, r, p, size int) ([]byte, error) {
	if n < 2 || n&(n-1) != 0 || r < 1 || p < 1 || size < 0 || r > mostScrypt/128 || p > mostScrypt/128/r || n > mostScrypt/128/r {
		return nil, &failure{Code: "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", Name: "RangeError", Message: "Invalid scrypt params"}
	}
	return scrypt.Key(password, salt, n, r, p, size)
}

// crypt encrypts or decrypts with AES: algorithm, encrypt, key, iv, bytes, {aad, tag}.
func crypt(c *opCall) (any, error) {
	parts := strings.Split(strings.ToLower(c.args.text(0)), "-") // aes-256-gcm
	if len(parts) != 3 || parts[0] != "aes" {
		return nil, &failure{Code: "ERR_CRYPTO_UNKNOWN_CIPHER", Message: "Unknown cipher"}
	}
	key, iv, data, encrypt := c.args.bytes(2), c.args.bytes(3), c.args.bytes(4), c.args.bool(1)
	if bits, err := strconv.Atoi(parts[1]); err != nil || len(key)*8 != bits {
		return nil, &failure{Code: "ERR_CRYPTO_INVALID_KEYLEN", Name: "RangeError", Message: "Invalid key length"}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if parts[2] != "gcm" && len(iv) != aes.BlockSize {
		return nil, &failure{Code: "ERR_CRYPTO_INVALID_IV", Name: "TypeError", Message: "Invalid initialization vector"}
	}
	give := func(out, tag []byte) (any, error) {
		return quick.Mixed{Value: struct{}{}, Bytes: map[string][]byte{"data": out, "tag": tag}}, nil
	}
	switch parts[2] {
	case "ctr":
		out := make([]byte, len(data))
		cipher.NewCTR(block, iv).XORKeyStream(out, data)
		return give(out, nil)
	case "cbc":
		if encrypt {
			pad := aes.BlockSize - len(data)%aes.BlockSize
			out := append(bytes.Clone(data), bytes.Repeat([]byte{byte(pad)}, pad)...)
			cipher.NewCBCEncrypter(block, iv).CryptBlocks(out, out)
			return give(out, nil)
		}
		if len(data) == 0 || len(data)%aes.BlockSize != 0 {
			return nil, &failure{Code: "ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH", Message: "wrong final block length"}
		}
		out := make([]byte, len(data))
		cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, data)
		pad := int(out[len(out)-1])
		if pad == 0 || pad > aes.BlockSize || !bytes.HasSuffix(out, bytes.Repeat([]byte{byte(pad)}, pad)) {
			return nil, &failure{Code: "ERR_OSSL_BAD_DECRYPT", Message: "bad decrypt"}
		}
		return give(out[:len(out)-pad], nil)
	case "gcm":
		gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
		if err != nil {
			return nil, err
		}
		aad, tag := c.args.bytes(5), c.args.bytes(6)
		if encrypt {
			out := gcm.Seal(nil, iv, data, aad)
			at := len(out) - gcm.Overhead()
			return give(out[:at], out[at:])
		}
		out, err := gcm.Open(nil, iv, append(bytes.Clone(data), tag...), aad)
		if err != nil {
			return nil, &failure{Message: "Unsupported state or unable to authenticate data"}
		}
		return give(out, nil)
	}
	return nil, &failure{Code: "ERR_CRYPTO_UNKNOWN_CIPHER", Message: "Unknown cipher"}
}

// squeeze packs or unpacks: method, bytes, {level}.
func squeeze(c *opCall) (any, error) {
	o := struct {
		Level int `json:"level"`
	}{flate.DefaultCompression}
	if err := c.args.into(2, &o); err != nil {
		return nil, err
	}
	data := c.args.bytes(1)
	var out bytes.Buffer
	var w io.WriteCloser
	var r io.Reader
	var err error
	method := c.args.text(0)
	if method == "unzip" {
		method = "inflate"
		if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			method = "gunzip"
		}
	}
	switch method {
	case "gzip":
		w, err = gzip.NewWriterLevel(&out, o.Level)
	case "deflate":
		w, err = zlib.NewWriterLevel(&out, o.Level)
	case "deflateRaw":
		w, err = flate.NewWriter(&out, o.Level)
	case "gunzip":
		r, err = gzip.NewReader(bytes.NewReader(data))
	case "inflate":
		r, err = zlib.NewReader(bytes.NewReader(data))
	case "inflateRaw":
		r = flate.NewReader(bytes.NewReader(data))
	case "brotliCompress", "brotliDecompress":
		return nil, &failure{Code: "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM", Message: "Brotli is not available in the built-in engine. Use gzip, or run the extension in Node.js: its first line is then \"// @troupe-host node\"."}
	default:
		return nil, fmt.Errorf("no compression %q", method)
	}
	if err == nil && w != nil {
		_, err = w.Write(data)
		err = errors.Join(err, w.Close())
	} else if err == nil {
		var n int64
		if n, err = io.Copy(&out, io.LimitReader(r, mostInflated+1)); n > mostInflated {
			return nil, &failure{Code: "ERR_BUFFER_TOO_LARGE", Name: "RangeError", Message: "Cannot create a Buffer larger than 268435456 bytes"}
		}
	}
	if err != nil {
		code, no := "Z_DATA_ERROR", -3
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			code, no = "Z_BUF_ERROR", -5
		}
		return nil, &failure{Code: code, Errno: no, Message: err.Error()}
	}
	return out.Bytes(), nil
}
