// Strandline-cluster is a whole Kubernetes control plane and node in one file: the tests start
// real servers from it, on any machine that has Go. The first argument names the program.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"golang.org/x/sys/unix"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const (
	parentFlag = "--die-with-parent="
	usage      = "usage: strandline-cluster [--die-with-parent=PID] PROGRAM [ARGUMENT ...]\n" +
		"PROGRAM is etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy or kubectl"
)

// The kernel ties the wish to die with the parent to a thread: keep the one that outlives all.
func init() { runtime.LockOSThread() }

func main() {
	arguments := os.Args[1:]
	if len(arguments) > 0 && strings.HasPrefix(arguments[0], parentFlag) {
		dieWithParent(strings.TrimPrefix(arguments[0], parentFlag))
		arguments = arguments[1:]
	}
	if len(arguments) == 0 {
		fail(usage)
	}
	// Every program takes its own name and arguments from here.
	os.Args = append([]string{filepath.Join(filepath.Dir(os.Args[0]), arguments[0])}, arguments[1:]...)
	os.Exit(start(arguments[0]))
}

func start(program string) int {
	switch program {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kubectl":
		return control()
	case "kube-apiserver":
		return cli.Run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		return cli.Run(controllers.NewControllerManagerCommand())
	case "kube-scheduler":
		return cli.Run(scheduler.NewSchedulerCommand())
	case "kubelet":
		return cli.Run(kubelet.NewKubeletCommand(context.Background()))
	case "kube-proxy":
		return cli.Run(proxy.NewProxyCommand())
	}
	fail("strandline-cluster: there is no program named " + program + "\n" + usage)
	return 2
}

func control() int {
	command := kubectl.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

// A test that is killed takes its servers along. The process id tells a parent that was gone
// before the wish was made from one that is still there.
func dieWithParent(text string) {
	parent, err := strconv.Atoi(text)
	if err != nil {
		fail("strandline-cluster: --die-with-parent takes a process id, not " + text)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		fail("strandline-cluster: cannot ask to die with the parent: " + err.Error())
	}
	if os.Getppid() != parent {
		fail("strandline-cluster: the parent is gone already")
	}
}

func fail(sentence string) {
	fmt.Fprintln(os.Stderr, sentence)
	os.Exit(2)
}
