package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestFrameReader_corpus reads the frames of the AWS SDK's tests, and refuses those that are
// broken.
func TestFrameReader_corpus(t *testing.T) {
	read := func(path string) []byte {
		text, err := os.ReadFile(filepath.Join("testdata/eventstream", path))
		require.NoError(t, err)
		return text
	}
	names := func(kind string) (list []string) {
		entries, err := os.ReadDir("testdata/eventstream/encoded/" + kind)
		require.NoError(t, err)
		for _, e := range entries {
			list = append(list, kind+"/"+e.Name())
		}
		return list
	}
	good := names("positive")
	require.Len(t, good, 5)
	for _, name := range good {
		var want struct {
			Headers []struct {
				Name  string
				Type  byte
				Value json.RawMessage
			}
			Payload []byte
		}
		require.NoError(t, json.Unmarshal(read("decoded/"+name), &want), name)
		frame := read("encoded/" + name)
		r := NewFrameReader(bytes.NewReader(append(bytes.Clone(frame), frame...)))
		for range 2 {
			event, err := r.Next()
			require.NoError(t, err, name)
			assert.Equal(t, string(want.Payload), string(event.Data), name)
		}
		_, err := r.Next()
		assert.Equal(t, io.EOF, err, name)
		length := int(frame[4])<<24 | int(frame[5])<<16 | int(frame[6])<<8 | int(frame[7])
		texts, err := frameHeaders(frame[preludeSize : preludeSize+length])
		require.NoError(t, err, name)
		n := 0
		for _, h := range want.Headers {
			if h.Type == headerString {
				var value []byte
				require.NoError(t, json.Unmarshal(h.Value, &value))
				assert.Equal(t, string(value), texts[h.Name], name)
				n++
			}
		}
		assert.Len(t, texts, n, name)
		for cut := 1; cut < len(frame); cut++ {
			_, err := NewFrameReader(bytes.NewReader(frame[:cut])).Next()
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s after %d bytes", name, cut)
		}
	}
	broken := names("negative")
	require.Len(t, broken, 4)
	for _, name := range broken {
		_, err := NewFrameReader(bytes.NewReader(read("encoded/" + name))).Next()
		var failed *protocol.StreamError
		require.ErrorAs(t, err, &failed, name)
		assert.Equal(t, protocol.ErrorCutStream, failed.Kind, name)
	}
}

// TestFrameReader_limits: what says that it is too large is not waited for, nor believed.
func TestFrameReader_limits(t *testing.T) {
	prelude := []byte{0x01, 0, 0, 1, 0, 0, 0, 0} // 16 MiB and a byte
	prelude = append(prelude, checksum(prelude)...)
	_, err := NewFrameReader(bytes.NewReader(prelude)).Next()
	assert.ErrorIs(t, err, ErrEventTooLarge)
	for _, prelude := range [][]byte{{0, 0, 0, 15, 0, 0, 0, 0}, {0, 0, 0, 32, 0, 0, 0, 17}, {0, 0, 0, 32, 0xff, 0xff, 0xff, 0xff}} {
		_, err := NewFrameReader(bytes.NewReader(append(prelude, checksum(prelude)...))).Next()
		var failed *protocol.StreamError
		require.ErrorAs(t, err, &failed)
	}
}

func checksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))
}
