# Debian's PyTorch on the software GPU, in a root file system that takes 8 GB and some minutes to make: a long test.
ifeq ($(FLAVOUR),plain)
PYTORCH_RUN := tests/pytorch/run $(BIN)
LONG_TESTS  += "$(PYTORCH_RUN)@3600"

.PHONY: check-pytorch
check-pytorch: all
	@$(PYTORCH_RUN)
endif
