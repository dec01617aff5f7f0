package mica

// #include <mica/mica.h>
import "C"

import (
	"sync"
	"unsafe"
)

// Device is where arrays live and are computed. Models and arrays share one, "cpu", unless they are
// given another.
type Device struct {
	handle *C.mica_device
	guard  guard
}

// DeviceInfo is what a device is.
type DeviceInfo struct {
	Name, Description, Architecture string
	Threads                         int
	UnifiedMemory                   bool
	MemoryBytes, MaxArrayBytes      uint64
	WorkingSetBytes                 uint64
}

// DeviceConfig is how a device is opened; zero is the default.
type DeviceConfig struct {
	Threads                           int // 0: one per usable core
	MemoryLimitBytes, CacheLimitBytes uint64
}

// OpenDevice opens a device: "cpu", "cuda:0", "mlx". The caller closes it; models and arrays that
// are there keep it until they end.
func OpenDevice(name string, config DeviceConfig) (*Device, error) {
	var mem memory
	defer mem.free()
	o := made[C.mica_device_options](&mem)
	o.struct_bytes = C.size_t(unsafe.Sizeof(*o))
	o.threads = C.int(config.Threads)
	o.memory_limit_bytes = C.uint64_t(config.MemoryLimitBytes)
	o.cache_limit_bytes = C.uint64_t(config.CacheLimitBytes)
	d, said := new(Device), mem.optional(name)
	err := check(func() C.mica_status { return C.mica_device_open(said, o, &d.handle) })
	if err != nil {
		return nil, err
	}
	h := d.handle // not d: what frees an object must not keep it
	d.guard.free = func() { C.mica_device_close(&h) }
	return d, nil
}

// DeviceAvailable is nil if a device can be opened here, or says what is missing.
func DeviceAvailable(name string) error {
	var mem memory
	defer mem.free()
	said := mem.text(name)
	return check(func() C.mica_status { return C.mica_device_available(said) })
}

// MetalAvailable says whether MLX can compute on a GPU of Apple's here.
func MetalAvailable() bool { return DeviceAvailable("mlx:gpu") == nil }

var (
	deviceLock sync.Mutex
	shared     *Device
)

// DefaultDevice is that of arrays and models that are given none: "cpu", unless SetDefaultDevice
// gave another.
func DefaultDevice() (*Device, error) {
	deviceLock.Lock()
	defer deviceLock.Unlock()
	if shared == nil {
		d, err := OpenDevice("cpu", DeviceConfig{})
		if err != nil {
			return nil, err
		}
		shared = d
	}
	return shared, nil
}

// SetDefaultDevice sets what DefaultDevice gives, for what is made from now on.
func SetDefaultDevice(d *Device) {
	deviceLock.Lock()
	defer deviceLock.Unlock()
	shared = d
}

// Close closes the device. Models and arrays that are there keep it until they end.
func (d *Device) Close() error {
	d.guard.close()
	return nil
}

// Info says what the device is.
func (d *Device) Info() (info DeviceInfo) {
	d.ask(func(handle *C.mica_device) uint64 {
		var i C.mica_device_info
		i.struct_bytes = C.size_t(unsafe.Sizeof(i))
		C.mica_device_get_info(handle, &i)
		info = DeviceInfo{C.GoString(i.name), C.GoString(i.description), C.GoString(i.architecture),
			int(i.threads), i.unified_memory != 0, uint64(i.memory_bytes),
			uint64(i.max_array_bytes), uint64(i.working_set_bytes)}
		return 0
	})
	return info
}

// ask calls with an open device; of a closed one everything is 0.
func (d *Device) ask(call func(*C.mica_device) uint64) uint64 {
	if d == nil || !d.guard.enter() {
		return 0
	}
	defer d.guard.leave()
	return call(d.handle)
}

// ActiveMemory is the bytes of live arrays. Mapped weights do not count.
func (d *Device) ActiveMemory() uint64 {
	return d.ask(func(h *C.mica_device) uint64 { return uint64(C.mica_device_active_bytes(h)) })
}

// PeakMemory is the largest number of active bytes since the last reset.
func (d *Device) PeakMemory() uint64 {
	return d.ask(func(h *C.mica_device) uint64 { return uint64(C.mica_device_peak_bytes(h)) })
}

// CacheMemory is the bytes of freed buffers that are kept.
func (d *Device) CacheMemory() uint64 {
	return d.ask(func(h *C.mica_device) uint64 { return uint64(C.mica_device_cached_bytes(h)) })
}

// FallbackOps is how often the CPU computed an op for the device.
func (d *Device) FallbackOps() uint64 {
	return d.ask(func(h *C.mica_device) uint64 { return uint64(C.mica_device_fallback_ops(h)) })
}

// ResetPeakMemory sets the peak to the active bytes of now.
func (d *Device) ResetPeakMemory() {
	d.ask(func(h *C.mica_device) uint64 { C.mica_device_reset_peak(h); return 0 })
}

// ClearCache gives freed buffers back to the system.
func (d *Device) ClearCache() {
	d.ask(func(h *C.mica_device) uint64 { C.mica_device_clear_cache(h); return 0 })
}

// SetCacheLimit bounds the freed buffers that are kept, 0: none; it returns the old limit.
func (d *Device) SetCacheLimit(bytes uint64) uint64 {
	return d.ask(func(h *C.mica_device) uint64 {
		return uint64(C.mica_device_set_cache_limit(h, C.uint64_t(bytes)))
	})
}

// SetMemoryLimit bounds the active bytes, 0: not; it returns the old limit. What would exceed it is
// MICA_ENOMEM.
func (d *Device) SetMemoryLimit(bytes uint64) uint64 {
	return d.ask(func(h *C.mica_device) uint64 {
		return uint64(C.mica_device_set_memory_limit(h, C.uint64_t(bytes)))
	})
}

// SetWiredLimit bounds the bytes that Metal keeps wired; it returns the old limit. On other devices
// it does nothing.
func (d *Device) SetWiredLimit(bytes uint64) uint64 {
	return d.ask(func(h *C.mica_device) uint64 {
		return uint64(C.mica_device_set_wired_limit(h, C.uint64_t(bytes)))
	})
}

func defaultDevice() *Device {
	d, _ := DefaultDevice()
	return d
}

// GetDeviceInfo is the default device's Info.
func GetDeviceInfo() DeviceInfo { return defaultDevice().Info() }

// GetActiveMemory is the default device's ActiveMemory.
func GetActiveMemory() uint64 { return defaultDevice().ActiveMemory() }

// GetPeakMemory is the default device's PeakMemory.
func GetPeakMemory() uint64 { return defaultDevice().PeakMemory() }

// GetCacheMemory is the default device's CacheMemory.
func GetCacheMemory() uint64 { return defaultDevice().CacheMemory() }

// ResetPeakMemory resets the default device's peak.
func ResetPeakMemory() { defaultDevice().ResetPeakMemory() }

// ClearCache clears the default device's cache.
func ClearCache() { defaultDevice().ClearCache() }

// SetCacheLimit sets that of the default device, and returns the old one.
func SetCacheLimit(bytes uint64) uint64 { return defaultDevice().SetCacheLimit(bytes) }

// SetMemoryLimit sets that of the default device, and returns the old one.
func SetMemoryLimit(bytes uint64) uint64 { return defaultDevice().SetMemoryLimit(bytes) }

// SetWiredLimit sets that of the default device, and returns the old one.
func SetWiredLimit(bytes uint64) uint64 { return defaultDevice().SetWiredLimit(bytes) }
