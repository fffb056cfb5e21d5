# Debian's PyTorch on the software GPU, in a root file system that takes 8 GB and some minutes to make: a long test.
ifeq ($(FLAVOUR),plain)
PYTORCH_RUN := tests/pytorch/run $(BIN)
LONG_TESTS  += "$(PYTORCH_RUN)@3600"
# torch.distributed on Flyt's libnccl.so.2, in the same root.
PYTORCH_DISTRIBUTED := tests/pytorch/distributed $(BIN)
LONG_TESTS  += "$(PYTORCH_DISTRIBUTED)@1800"
# PyTorch's own tests, in parts; `list` says which are refused.
PYTORCH_C10D := tests/pytorch/c10d $(BIN)
PYTORCH_C10D_PARTS := list groups collectives subgroups ddp hooks errors trace eight none
LONG_TESTS  += $(foreach part,$(PYTORCH_C10D_PARTS),"$(PYTORCH_C10D) $(part)@600")
# PyPI's PyTorch on the null device: 5.4 GB, two minutes to install.
PYTORCH_WHEEL := tests/pytorch/wheel $(BIN)
LONG_TESTS  += "$(PYTORCH_WHEEL)@1800"

.PHONY: check-pytorch check-pytorch-distributed check-pytorch-wheel
check-pytorch: all
	@$(PYTORCH_RUN)
check-pytorch-distributed: all
	@$(PYTORCH_DISTRIBUTED)
check-pytorch-wheel: all
	@$(PYTORCH_WHEEL)
endif
