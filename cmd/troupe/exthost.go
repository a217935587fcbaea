package main

import (
	"errors"
	"fmt"
	"os"

	"troupe/actors/kernel"
	"troupe/protocol"
	"troupe/providers/catalog"
	"troupe/providers/registry"
	"troupe/tools"
	"troupe/tools/extension"
)

// extHostErrand is the word with which troupe starts itself to run extensions, so that
// what breaks there does not break the daemon.
const extHostErrand = "ext-host"

// extHostFD is where the daemon is.
const extHostFD = 3

// knownModels are the models of a provider, or of all, as extensions see them.
func knownModels(provider string) []byte {
	return protocol.AppendValue(nil, registry.Known(catalog.FS, provider))
}

func knownName(provider string) string { return registry.KnownName(catalog.FS, provider) }

// engineOf is the engine that --extension-host names.
func engineOf(host string) string {
	switch host {
	case extension.EngineQuick, extension.EngineNode:
		return host
	}
	return extension.EngineAuto
}

// extHost runs extensions for the daemon until it is gone.
func extHost(engine string) int {
	conn := os.NewFile(extHostFD, "daemon")
	if info, err := conn.Stat(); err != nil || info.Mode()&os.ModeSocket == 0 {
		return refuse(errors.New(extHostErrand + " is a part of troupe that it starts itself"))
	}
	defer conn.Close()
	guard := tools.NewGuard()
	defer guard.Close()
	err := extension.Serve(conn, extension.Options{
		Limits: extension.DefaultLimits(), CacheDir: extension.CacheDir(), Guard: guard, Files: &tools.Files{}, Version: version, PiVersion: piVersion,
		Models: knownModels, ProviderName: knownName, Engine: engineOf(engine), Turns: kernel.New(),
	})
	if err != nil {
		fmt.Fprintln(stderr, "troupe:", err)
		return exitError
	}
	return exitOK
}
