package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// clockSkew is by how much an issuer's clock may be ahead.
const clockSkew = 5 * time.Second

// identity verifies an ID token: its signature by a key of the issuer, and that it
// was issued by it, to us, for this attempt, and is not over. It returns the claims.
func (s *Store) identity(ctx context.Context, token, keysAt, issuer, client, nonce string) (gjson.Result, error) {
	var none gjson.Result
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return none, because(causeIDToken, "the ID token is no signed token")
	}
	head, err := decodePart(parts[0])
	if err != nil {
		return none, err
	}
	claims, err := decodePart(parts[1])
	if err != nil {
		return none, err
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return none, because(causeIDToken, "the ID token has no signature")
	}
	keys, err := s.call(ctx, http.MethodGet, keysAt, "", nil)
	if err != nil {
		return none, err
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !verify(keys.Result, head, digest[:], signature) {
		return none, because(causeIDToken, "the ID token is not signed by its issuer")
	}
	now := s.config.Now()
	audience := claims.Get("aud")
	if list := audience.Array(); audience.IsArray() && len(list) == 1 {
		audience = list[0]
	}
	azp := claims.Get("azp")
	switch {
	case claims.Get("iss").Str != issuer:
		return none, because(causeIDToken, "the ID token is of another issuer")
	case audience.Str != client || azp.Exists() && azp.Str != client:
		return none, because(causeIDToken, "the ID token was issued to another program")
	case claims.Get("exp").Num < float64(now.Add(-clockSkew).Unix()):
		return none, because(causeIDToken, "the ID token is over; is the clock of this machine right?")
	case claims.Get("iat").Num > float64(now.Add(10*time.Minute).Unix()):
		return none, because(causeIDToken, "the ID token is of the future; is the clock of this machine right?")
	case nonce == "" || claims.Get("nonce").Str != nonce:
		return none, because(causeIDToken, "the ID token is of another attempt")
	case claims.Get("sub").Str == "":
		return none, because(causeIDToken, "the ID token names nobody")
	}
	return claims, nil
}

func decodePart(part string) (gjson.Result, error) {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil || !protocol.ValidJSON(text) {
		return gjson.Result{}, because(causeIDToken, "the ID token cannot be read")
	}
	return gjson.ParseBytes(text), nil
}

// verify says whether one of the keys that the head names has made a signature. Only
// the two kinds count that issuers sign with; "none" and shared secrets do not.
func verify(keys, head gjson.Result, digest, signature []byte) bool {
	for _, key := range keys.Get("keys").Array() {
		if kid := head.Get("kid"); kid.Exists() && key.Get("kid").Str != kid.Str {
			continue
		}
		if alg := key.Get("alg"); alg.Exists() && alg.Str != head.Get("alg").Str {
			continue
		}
		switch head.Get("alg").Str {
		case "RS256":
			public := &rsa.PublicKey{N: number(key.Get("n")), E: int(number(key.Get("e")).Int64())}
			if key.Get("kty").Str == "RSA" && public.N.BitLen() >= 2048 && rsa.VerifyPKCS1v15(public, crypto.SHA256, digest, signature) == nil {
				return true
			}
		case "ES256":
			if key.Get("kty").Str != "EC" || key.Get("crv").Str != "P-256" || len(signature) != 64 {
				continue
			}
			point := make([]byte, 65)
			point[0] = 4 // uncompressed
			if x, y := number(key.Get("x")), number(key.Get("y")); x.BitLen() <= 256 && y.BitLen() <= 256 {
				x.FillBytes(point[1:33])
				y.FillBytes(point[33:])
			}
			public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
			r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
			if err == nil && ecdsa.Verify(public, digest, r, s) {
				return true
			}
		}
	}
	return false
}

func number(v gjson.Result) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(v.Str)
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(b)
}
