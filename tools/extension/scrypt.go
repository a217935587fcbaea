package extension

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// mostScrypt bounds the memory of one key, in bytes: twice what Node allows.
const mostScrypt = 64 << 20

// scrypt derives a key (RFC 7914). n, a power of two, and r say how much memory it
// takes, p how often.
func scrypt(password, salt []byte, n, r, p, size int) ([]byte, error) {
	if n < 2 || n&(n-1) != 0 || r < 1 || p < 1 || size < 0 || r > mostScrypt/128 || p > mostScrypt/128/r || n > mostScrypt/128/r {
		return nil, &failure{Code: "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", Name: "RangeError", Message: "Invalid scrypt params"}
	}
	blocks, err := pbkdf2.Key(sha256.New, string(password), salt, 1, p*128*r)
	if err != nil {
		return nil, err
	}
	x, v := make([]uint32, 32*r), make([]uint32, 32*r*n)
	for i := range p {
		mix(blocks[i*128*r:(i+1)*128*r], x, v, n)
	}
	return pbkdf2.Key(sha256.New, string(password), blocks, 1, size)
}

// mix is scryptROMix: it fills v with n states of x, and then reads it in an order that
// only the states tell.
func mix(block []byte, x, v []uint32, n int) {
	words := len(x)
	for i := range x {
		x[i] = binary.LittleEndian.Uint32(block[4*i:])
	}
	scratch := make([]uint32, words)
	for i := range n {
		copy(v[i*words:], x)
		mixBlock(x, scratch)
	}
	for range n {
		at := int(x[words-16]&uint32(n-1)) * words
		for i := range x {
			x[i] ^= v[at+i]
		}
		mixBlock(x, scratch)
	}
	for i := range x {
		binary.LittleEndian.PutUint32(block[4*i:], x[i])
	}
}

// mixBlock is scryptBlockMix: each sixteen words go through Salsa20/8 with those before;
// even ones come to lie in front of odd ones.
func mixBlock(x, out []uint32) {
	var t [16]uint32
	copy(t[:], x[len(x)-16:])
	half := len(x) / 2
	for i := 0; i < len(x); i += 16 {
		for j := range t {
			t[j] ^= x[i+j]
		}
		salsa(&t)
		copy(out[i/32*16+i/16%2*half:], t[:])
	}
	copy(x, out)
}

func salsa(t *[16]uint32) {
	x := *t
	quarter := func(a, b, c, d int) {
		x[b] ^= bits.RotateLeft32(x[a]+x[d], 7)
		x[c] ^= bits.RotateLeft32(x[b]+x[a], 9)
		x[d] ^= bits.RotateLeft32(x[c]+x[b], 13)
		x[a] ^= bits.RotateLeft32(x[d]+x[c], 18)
	}
	for range 4 {
		for i := range 4 { // columns, from the diagonal down
			quarter(i*5, (i*5+4)%16, (i*5+8)%16, (i*5+12)%16)
		}
		for i := range 4 { // rows, from the diagonal on
			row := i * 4
			quarter(i*5, row+(i+1)%4, row+(i+2)%4, row+(i+3)%4)
		}
	}
	for i := range t {
		t[i] += x[i]
	}
}
