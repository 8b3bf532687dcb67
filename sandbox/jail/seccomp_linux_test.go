package jail

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// elf is a program of nothing but the given machine code: one loaded segment, headers and all.
func elf(code []byte) []byte {
	const base, headers = 0x400000, 64 + 56
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	put([16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1})
	put([]uint16{2, 62}) // an executable for x86-64
	put(uint32(1))
	put([]uint64{base + headers, 64, 0})
	put(uint32(0))
	put([]uint16{64, 56, 1, 64, 0, 0})
	put([]uint32{1, 5}) // to be loaded, readable and executable
	put([]uint64{0, base, base, uint64(headers + len(code)), uint64(headers + len(code)), 0x1000})
	b.Write(code)
	return b.Bytes()
}

// A filter that names system calls by number of one architecture says nothing of another's: by int 0x80 every call has its
// 32-bit number, and by the x32 bit a third one.
func TestForeignArchitecture(t *testing.T) {
	needJail(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are for amd64")
	}
	exit := []byte{
		0x89, 0xc7, // mov edi, eax: what the call returned
		0xb8, 60, 0, 0, 0, // mov eax, exit
		0x0f, 0x05, // syscall
	}
	for name, c := range map[string]struct {
		code    []byte
		without int // status without the guard
	}{
		"unshare by int 0x80": {[]byte{
			0xb8, 0x36, 0x01, 0, 0, // mov eax, 310: unshare of i386
			0xbb, 0, 0, 0, 0x10, // mov ebx, CLONE_NEWUSER
			0xcd, 0x80, // int 0x80
		}, 0},
		"getpid by x32": {[]byte{
			0xb8, 39, 0, 0, 0x40, // mov eax, getpid of x32
			0x0f, 0x05, // syscall
		}, 256 - 38}, // the library answers ENOSYS
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Spec{Workspace: workspace(t), Argv: []string{"/workspace/a"}}
			if err := os.WriteFile(filepath.Join(s.Workspace, "a"), elf(append(c.code, exit...)), 0o755); err != nil {
				t.Fatal(err)
			}
			if o := try(t, without{}, s, ""); o.Code != 128+31 || o.Signal != "bad system call" {
				t.Errorf("ended with %d, %s; want SIGSYS", o.Code, o.Signal)
			}
			o := try(t, without{guard: true, userns: true}, s, "")
			if name == "unshare by int 0x80" && o.Code == 256-38 {
				t.Skip("this kernel has no 32-bit system calls")
			}
			if o.Code != c.without {
				t.Errorf("control: without the guard it ended with %d, want %d", o.Code, c.without)
			}
		})
	}
}

// bubblewrap takes the filter as the kernel does: records of eight bytes, at most 4096.
func TestFilterSize(t *testing.T) {
	t.Parallel()
	program, err := filter()
	if err != nil {
		t.Fatal(err)
	}
	if len(program)%8 != 0 || len(program) == 0 || len(program) > 4096*8 {
		t.Errorf("the filter has %d bytes", len(program))
	}
}

// The kernel looks at the low 32 bits of a request, so the filter must too: a bit above would pass a comparison of all 64.
// Setting a line discipline stands for all three requests: unlike TIOCSTI it is allowed to everyone without the filter.
func TestIoctlHighBits(t *testing.T) {
	needJail(t)
	if unix.Access("/usr/bin/perl", unix.X_OK) != nil {
		t.Skip("perl is not installed")
	}
	for _, request := range []string{"0x5423", "0x100005423"} {
		script := `perl -e '$x = pack("i", 0); print syscall(16, 0, ` + request + `, $x), " $!\n"' <>/dev/ptmx`
		if o := try(t, without{}, Spec{}, script); o.out != "-1 Operation not permitted\n" {
			t.Errorf("request %s: %s", request, o.out)
		}
		if o := try(t, without{seccomp: true}, Spec{}, script); !o.says("0 ") {
			t.Errorf("control: request %s was refused without the filter: %s", request, o.out)
		}
	}
}
