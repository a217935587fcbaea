package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Files of a directory of keys. Those of a node are CA, Cert and Key; the key of the
// authority makes certificates for further nodes and belongs to who does that.
const (
	CAFile     = "ca.pem"
	CAKeyFile  = "ca.key"
	CertFile   = "node.pem"
	KeyFile    = "node.key"
	Protocol   = "troupe-peer/1" // of TLS, chosen by both sides
	caLife     = 10 * 365 * 24 * time.Hour
	nodeLife   = 3 * 365 * 24 * time.Hour
	clockError = 5 * time.Minute // by which clocks may differ
)

// nodeUsage is what a certificate says of a node, and of nobody else: an arc below that of
// UUIDs, so that nobody had to be asked for it.
var nodeUsage = asn1.ObjectIdentifier{2, 25, 8134, 21, 1}

// Keys are what a node is known by, and whom it knows.
type Keys struct {
	Node string   // the name in its certificate
	CA   []string // the authorities that it takes certificates of: sums of theirs
	cert tls.Certificate
	ca   *x509.CertPool
}

// Load reads the keys of a node from a directory. Keys that others can read are refused.
func Load(dir string) (*Keys, error) {
	if err := private(filepath.Join(dir, KeyFile)); err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", filepath.Join(dir, CAFile))
	}
	k := &Keys{cert: cert, ca: pool}
	for block, rest := pem.Decode(ca); block != nil; block, rest = pem.Decode(rest) {
		sum := sha256.Sum256(block.Bytes)
		k.CA = append(k.CA, hex.EncodeToString(sum[:8]))
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return nil, err
	}
	k.cert.Leaf = leaf
	if err := k.verify(leaf, time.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, CertFile), err)
	}
	k.Node = leaf.DNSNames[0]
	return k, nil
}

// Engine is how the engine is spoken to with the same certificates.
func (k *Keys) Engine() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: k.ca, Certificates: []tls.Certificate{k.cert}}
}

// private refuses a file that others can read.
func private(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be read by others: chmod 600", path)
	}
	return nil
}

// verify says what is wrong with the certificate of a node.
func (k *Keys) verify(cert *x509.Certificate, now time.Time) error {
	if _, err := cert.Verify(x509.VerifyOptions{Roots: k.ca, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return err
	}
	if !slices.ContainsFunc(cert.UnknownExtKeyUsage, nodeUsage.Equal) {
		return errors.New("the certificate is not a node's")
	}
	if len(cert.DNSNames) != 1 {
		return errors.New("the certificate names no node, or several")
	}
	return nil
}

// NewAuthority makes the authority of a new cluster in a directory, which is made with it. One
// that is there already is left alone, and so are the keys of a node, which belong to another authority.
func NewAuthority(dir string) (made bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	if _, err := os.Stat(filepath.Join(dir, CAKeyFile)); err == nil {
		return false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if _, err := os.Lstat(filepath.Join(dir, CAFile)); err == nil {
		return false, fmt.Errorf("%s has the keys of a node, or a %s without its %s: the authority of the cluster is elsewhere", dir, CAFile, CAKeyFile)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "troupe cluster " + serial().Text(36)[:8]},
		NotBefore: time.Now().Add(-clockError), NotAfter: time.Now().Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return false, err
	}
	if err := writePEM(filepath.Join(dir, CAFile), "CERTIFICATE", cert, 0o644); err != nil {
		return false, err
	}
	return true, writeKey(filepath.Join(dir, CAKeyFile), key)
}

// NewNode makes the keys of a node in a directory, by the authority in another one. hosts are
// the names and addresses that it has beside its own, for who speaks to a server of the engine
// with the same certificate; nodes do not look at them.
func NewNode(authority, dir, node string) error {
	if !ValidName(node) {
		return fmt.Errorf("%q is no name of a node: letters, digits, - and _, 64 at most", node)
	}
	caCert, caKey, err := readAuthority(authority)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: node}, DNSNames: []string{node},
		NotBefore: time.Now().Add(-clockError), NotAfter: time.Now().Add(nodeLife),
		KeyUsage:           x509.KeyUsageDigitalSignature,
		ExtKeyUsage:        []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		UnknownExtKeyUsage: []asn1.ObjectIdentifier{nodeUsage},
	}
	cert, err := x509.CreateCertificate(rand.Reader, t, caCert, key.Public(), caKey)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, CAFile), "CERTIFICATE", caCert.Raw, 0o644); err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, CertFile), "CERTIFICATE", cert, 0o644); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, KeyFile), key)
}

// ValidName says whether a node may have a name: it is a part of subjects of the engine, and
// of certificates.
func ValidName(node string) bool {
	if node == "" || len(node) > 64 {
		return false
	}
	for _, c := range node {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func readAuthority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	if err := private(filepath.Join(dir, CAKeyFile)); err != nil {
		return nil, nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CAFile), filepath.Join(dir, CAKeyFile))
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s: not a key that troupe has made", filepath.Join(dir, CAKeyFile))
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	return cert, key, err
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the system has no random numbers
	}
	return n.Add(n, new(big.Int).Lsh(big.NewInt(1), 120))
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
